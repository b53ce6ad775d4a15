"""The keeper of a query's leases.

keeper, held_leases, taking   its interface, its writes, how it acquires leases
keeper_thread                 the keeper on a thread of the source's process, and how that process ends
checkpoint_folder             what Spark committed last
"""
