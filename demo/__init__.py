"""`make demo`: real events through the deployed stack on the embedded AWS, and the proof that none is missing."""
