"""The keeper of a query's leases.

keeper, held_leases, taking   what it is asked, its writes, how it comes by leases
keeper_thread                 the keeper on a thread of the source's process, and the ways in which that ends
checkpoint_folder             what Spark committed last
"""
