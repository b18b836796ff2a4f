"""What a request may search: the roots of its workspace, and whatever other source is asked beside them."""

from forged.scopes.resolve import Resolver, Workplace

__all__ = ["Resolver", "Workplace"]
