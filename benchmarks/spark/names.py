"""The ways of reading that are measured, by their names."""

NOTHING = "nothing"
CEILING = "prebuilt RecordBatches"
PROVEN = "MD5 + prebuilt RecordBatches"
SUBLET = "sublet"
SUBLET_UNFILTERED = "sublet, filter off"
TUPLES = "tuples"
AGG = "aws-kinesis-agg + tuples"
