"""What a record's data means: decoded by a format, and encoded in it. One place for commands, handlers and Spark.

`settings.payload_format` has the text of a format; `decoding` and `encoding` make functions of it. Everything here is
pure but for schema files, which are read once; a registry is a port. A library that only one format needs is imported
with it.
"""
