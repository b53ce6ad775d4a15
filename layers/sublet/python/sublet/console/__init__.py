"""`sublet console`: what an operator sees and moves, on a page that this machine serves to itself."""
