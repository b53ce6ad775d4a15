"""The commands are in `sublet.operate.cli`; this path stays for one release."""
