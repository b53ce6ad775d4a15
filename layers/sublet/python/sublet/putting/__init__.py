"""Puts records: carries out what `decisions/producing` decides.

loop            a producer's loop: takes records from any thread; its tasks plan, put, list shards and report outcomes
arrivals        the records that were put since the loop last looked
listings        when the loop lists the shards
given_up        which error the next flush raises, and the log lines
put_future      the future of a record
blocking        puts an iterable of records in the caller's thread
placing_source  lists the shards, and finds out who places records
"""
