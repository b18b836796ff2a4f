"""The classifier that needs no model: sentences that say outright that they last."""

from forged.capture.rules.engine import LONGEST, SHORTEST, RuleClassifier

__all__ = ["LONGEST", "SHORTEST", "RuleClassifier"]
