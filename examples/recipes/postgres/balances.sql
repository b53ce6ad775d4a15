CREATE TABLE balances (
    customer text PRIMARY KEY,
    cents bigint NOT NULL
);

-- How far each shard is in the balances. numeric: a sequence number has 56 digits, a bigint 19.
CREATE TABLE positions (
    stream text,
    shard_id text,
    sequence_number numeric NOT NULL DEFAULT 0,
    sub_sequence_number integer NOT NULL DEFAULT -1,
    PRIMARY KEY (stream, shard_id)
);

-- Records that were set aside and came back by `sublet redrive`, behind their shard's position.
CREATE TABLE redriven (
    stream text,
    shard_id text,
    sequence_number numeric,
    sub_sequence_number integer,
    PRIMARY KEY (stream, shard_id, sequence_number, sub_sequence_number)
);
