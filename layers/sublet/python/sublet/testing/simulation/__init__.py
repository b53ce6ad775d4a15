"""A deterministic simulation: the engine's own code in a world of crashes, pauses, lost replies and reshards, from one
seed.

run          one seed, from the first record to the last check
scheduler    time, tasks and processes
weather      which faults occur, and how often
world        what all actors share
fleet        our deployment
producer_and_operator  the world around the fleet
ports        the engine's ports
ledger       the truth about records, checked at every call and write
table_watch  the truth about leases, checked at every write
write_rules  what each write may change, and which rows must refuse it
"""
