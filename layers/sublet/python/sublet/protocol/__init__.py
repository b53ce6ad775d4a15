"""The formats of KCL, Kinesis and the KPL. Pure; nothing here is our invention."""
