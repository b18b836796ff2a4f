"""Evaluation of recall in figures: labelled sets, a real daemon in a scratch HOME, scores."""
