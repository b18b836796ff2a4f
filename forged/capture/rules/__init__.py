"""Classifier without a model: sentences that show by their wording that they last."""
