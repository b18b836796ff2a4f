"""How well recall works, in figures: labelled sets, a real daemon in a scratch HOME, scores."""
