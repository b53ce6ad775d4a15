"""`sublet console`: a page that this machine serves to itself, for an operator's looks and changes."""
