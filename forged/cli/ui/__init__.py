"""`forgectl ui`: memories, captures and injections as one page for a browser."""
