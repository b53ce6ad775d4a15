"""The producer's loop: it takes records from any thread, and carries out what `decisions/producing` decides.

loop           a task that plans and sends, and tasks that put, list the shards, and tell the program
placing_source the listing of the shards, and who places records
arriving       the records that the loop has not seen yet, with the bytes that are buffered in all
"""
