// Where shards stand, by sequence number. A quiet shard's subscription moves on as well: its numbers lie between the last
// record's and any later one's, because kinesis-local's contain a count of records above the time in seconds.
'use strict';

const NUMBER = /\d{56}/g;
const SHARD = /shardId-\d{12}/g;
const KEPT = 100_000;
const BELOW_COUNT = (1n << 72n) - 1n; // the time in seconds, the shard's index in 32 bits, a version in 4 bits
const VERSION = 2n;

class Numbers {
  constructor() {
    [this.lasts, this.standsFor] = [new Map(), new Map()];
  }

  /** The shards that this reply to a put names; what it says of their numbers is remembered. */
  put(streamName, text) {
    const [numbers, shards] = [text.match(NUMBER) ?? [], text.match(SHARD) ?? []];
    shards.forEach((shard, index) => {
      const key = `${streamName}/${shard}`;
      if (numbers[index] > (this.lasts.get(key) ?? '')) this.lasts.set(key, numbers[index]);
    });
    return new Set(shards);
  }

  /** The last record that a shard got; undefined if it has got none. */
  last(streamName, shard) {
    return this.lasts.get(`${streamName}/${shard}`);
  }

  forget(streamName) {
    for (const key of this.lasts.keys()) if (key.startsWith(`${streamName}/`)) this.lasts.delete(key);
  }

  begin(streamName, shard, starting) {
    if (!this.lasts.has(`${streamName}/${shard}`)) this.lasts.set(`${streamName}/${shard}`, starting);
  }

  /** A number for this moment, of a shard that is read as far as `stands`. Milliseconds take the place of the shard's index. */
  now(stands) {
    const [number, time] = [BigInt(stands), Date.now()];
    const low = (BigInt(Math.floor(time / 1000)) << 36n) | (BigInt(time % 1000) << 4n) | VERSION;
    if ((number & BELOW_COUNT) >= low) return stands;
    const moved = String((number & ~BELOW_COUNT) | low);
    this.standsFor.set(moved, stands);
    for (const oldest of this.standsFor.keys()) {
      if (this.standsFor.size <= KEPT) break;
      this.standsFor.delete(oldest);
    }
    return moved;
  }

  /** As kinesis-local knows it: it takes only numbers of records. */
  position({ Type: type, SequenceNumber: number, Timestamp: timestamp }) {
    const record = this.standsFor.get(number);
    if (record !== undefined) return { ShardIteratorType: 'AFTER_SEQUENCE_NUMBER', StartingSequenceNumber: record };
    return { ShardIteratorType: type, StartingSequenceNumber: number, Timestamp: timestamp };
  }
}

/** When a record got this number, in milliseconds; kinesis-local's numbers have seconds. */
function momentOf(number) {
  return Number((BigInt(number) >> 36n) & ((1n << 36n) - 1n)) * 1000;
}

module.exports = { Numbers, momentOf };
