"""How well recall works, in figures: labelled sets, a real daemon in a scratch HOME, scores.

What is measured is what an agent gets: files on disk, the whole daemon, replies over the socket. Nothing here
imports the ranking, so that a figure cannot be better than the product (README "Measured").

`dataset` is what a set is, `life` and `locomo` read the two kinds of it, `worlds` says what one daemon holds,
`settings` and `scratch` (the demo uses it as well) start it, `trial` asks, `scores` judges.
"""
