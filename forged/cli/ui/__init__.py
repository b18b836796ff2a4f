"""`forgectl ui`: what the daemon knows as one page for a browser; the page's own files lie beside it."""
