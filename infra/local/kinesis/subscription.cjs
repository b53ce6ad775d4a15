// One subscription of a consumer to a shard: kinesis-local's records as events, until the time is over, the shard ends, another
// call takes over, or the client goes. A put wakes it, so nothing is polled in between.
'use strict';

const stream = require('./event_stream.cjs');

const EVENT_BYTES = 2 ** 20; // of data in one event, unless one record is larger
const PAGE = 10_000;

class Subscription {
  /** `fault` is what goes wrong in it: see faults.cjs. `iterator` is where it starts. `upstream` calls kinesis-local. */
  constructor({ asked, consumer, format, fault, iterator, knobs, numbers, reply, upstream }) {
    Object.assign(this, { asked, consumer, format, fault, iterator, knobs, numbers, reply, upstream });
    [this.sent, this.over, this.isStale, this.isToCheck, this.paidUntil] = [0, undefined, true, false, 0];
    this.wakers = new Set();
    this.time = setTimeout(() => this.end(), knobs.lasts);
    reply.on('close', () => this.end());
    if (reply.isGone) this.end();
  }

  /** There may be something new; with `check`, also about the consumer. */
  wake(check = false) {
    this.isStale = true;
    this.isToCheck ||= check;
    this.stir();
  }

  /** The first reason to end counts: `last` is the message that says it, if there is one. */
  end(last = null) {
    this.over ??= { last };
    this.stir();
  }

  fail(type, message) {
    this.end(stream.exception(type, this.format.contentType, this.format.encode({ message })));
  }

  stir() {
    for (const waker of this.wakers) waker();
  }

  /** Until `ms` are over or something has happened. */
  pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => waker(), Math.max(0, ms));
      const waker = () => {
        clearTimeout(timer);
        this.wakers.delete(waker);
        this.reply.off('drain', waker);
        resolve();
      };
      this.wakers.add(waker);
      this.reply.on('drain', waker);
    });
  }

  async run() {
    this.fault.begin(this, stream.event('initial-response', this.format.contentType, this.format.encode({})));
    try {
      while (!this.over) await this.step();
    } catch (problem) {
      this.fail('InternalFailureException', String(problem));
    }
    clearTimeout(this.time);
    if (this.over.last) this.reply.write(this.over.last);
    this.reply.end();
  }

  async step() {
    if (this.isToCheck && !(await this.isConsumerThere())) return;
    const due = (this.quietSince ?? 0) + this.knobs.quietEventEvery;
    if (!this.isStale && Date.now() < due) return this.pause(due - Date.now());
    this.isStale = false;
    const stands = this.numbers.last(this.consumer.stream, this.asked.ShardId);
    const { status, content } = await this.upstream('GetRecords', { ShardIterator: this.iterator, Limit: PAGE });
    if (status !== 200) return this.refused(content);
    this.iterator = content.NextShardIterator;
    const isAtEnd = !this.iterator;
    for (const records of portions(content.Records, isAtEnd)) await this.send(records, content);
    if (isAtEnd && !this.over) return this.end();
    if (content.Records.length) return this.wake();
    if (Date.now() >= due) await this.send([], content, this.numbers.now(stands));
  }

  async isConsumerThere() {
    this.isToCheck = false;
    const { status, content } = await this.upstream('DescribeStreamConsumer', { ConsumerARN: this.consumer.arn });
    const isThere = status === 200 && content.ConsumerDescription.ConsumerStatus === 'ACTIVE';
    if (!isThere) this.fail('ResourceNotFoundException', `Consumer ${this.consumer.arn} not found.`);
    return isThere;
  }

  refused({ __type: type, message }) {
    this.fail(/NotFound|KMS/.test(type) ? type : 'InternalFailureException', message);
  }

  /** `records` is the last portion of a shard that has ended if it has `isLast`. */
  async send(records, page, continuation = records.at(-1)?.SequenceNumber) {
    await this.fault.before(this);
    await this.mayBeSent();
    if (this.over) return;
    const end = records.isLast ? { ChildShards: this.fault.childrenOf(page) } : { ContinuationSequenceNumber: continuation };
    const event = { Records: records.map(this.format.record), MillisBehindLatest: page.MillisBehindLatest, ...end };
    const frame = stream.event('SubscribeToShardEvent', this.format.contentType, this.format.encode(event));
    this.paidUntil = Math.max(Date.now(), this.paidUntil) + (frame.length / this.knobs.bytesASecond) * 1000;
    this.quietSince = Date.now();
    this.reply.write(frame);
    this.sent += 1;
  }

  /** Waits for a client that does not read, and for what the service gives a second. */
  async mayBeSent() {
    while (!this.over && this.reply.writableNeedDrain) await this.pause(this.knobs.lasts);
    while (!this.over && this.paidUntil - Date.now() > 1000) await this.pause(this.paidUntil - Date.now() - 1000);
  }
}

/** The records of a page, by events; of an ended shard, the last may be empty. */
function portions(records, isAtEnd) {
  const all = [];
  let bytes = Infinity;
  for (const record of records) {
    if (bytes + record.Data.length * 0.75 > EVENT_BYTES) [bytes] = [0, all.push([])];
    all.at(-1).push(record);
    bytes += record.Data.length * 0.75;
  }
  if (isAtEnd && !all.length) all.push([]);
  if (isAtEnd) all.at(-1).isLast = true;
  return all;
}

module.exports = { Subscription };
