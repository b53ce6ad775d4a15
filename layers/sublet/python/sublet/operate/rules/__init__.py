"""What an operator's commands and pages decide: pure, as `sublet.decisions` is."""
