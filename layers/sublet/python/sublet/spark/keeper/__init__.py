"""The keeper of a query's leases.

keeper, held_leases, taking                    what it is asked, its writes, how it comes by leases
keeper_process, keeper_link, keeper_messages   the keeper as a process, the way to it, and what is said
checkpoint_folder, query_life                  what Spark committed last, and until when it may commit more
"""
