"""An operator's looks and changes, over ports. Commands and pages show them."""
