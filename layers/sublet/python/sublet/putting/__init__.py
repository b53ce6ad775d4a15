"""Puts records: carries out what `decisions/producing` decides.

loop            a producer's: takes records from any thread; tasks that plan, put, list the shards, and tell the program
blocking        for records that are all there, in the caller's thread
placing_source  the listing of the shards, and who places records
"""
