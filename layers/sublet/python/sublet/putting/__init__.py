"""Puts records: carries out what `decisions/producing` decides.

loop            a producer's: takes records from any thread; tasks that plan, put, list the shards, and tell the program
arrivals        what was put since it last looked
listings        when it lists the shards
given_up        what the next flush raises, and what the log says
blocking        for records that are all there, in the caller's thread
placing_source  the listing of the shards, and who places records
"""
