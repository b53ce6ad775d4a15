"""Names of the measured ways of reading."""

NOTHING = "nothing"
CEILING = "prebuilt RecordBatches"
PROVEN = "MD5 + prebuilt RecordBatches"
SUBLET = "sublet"
SUBLET_UNFILTERED = "sublet, filter off"
TUPLES = "tuples"
AGG = "aws-kinesis-agg + tuples"
