"""The classifier that needs no model: sentences that say outright that they last."""
