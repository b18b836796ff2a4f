"""What memories speak of, and how one thing relates to another: found in text by rules, joined to a graph."""
