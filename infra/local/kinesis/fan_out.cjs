// SubscribeToShard, which kinesis-local lacks, by the service's rules. kinesis-local registers the consumers.
//
// A test changes a consumer's knobs and plants faults by a signed POST to CONTROL (infra/local/fan_out.py):
//   lasts            milliseconds that a subscription lasts, 5 minutes
//   againAfter       how soon after a successful call the same consumer may take over the shard, 5 seconds
//   quietEventEvery  how often a subscription without records sends an empty event, 5 seconds
//   bytesASecond     what a subscription gets at most, 2 MiB
'use strict';

const http = require('node:http');

const { encode } = require('./cbor.cjs');
const { Fault } = require('./faults.cjs');
const { Numbers, momentOf } = require('./numbers.cjs');
const { Subscription } = require('./subscription.cjs');
const { invalid, unfit } = require('./validation.cjs');

const CONTROL = '/_sublet/fan-out';
const KNOBS = Object.freeze({ lasts: 300_000, againAfter: 5_000, quietEventEvery: 5_000, bytesASecond: 2 * 2 ** 20 });
const EVENT_STREAM = 'application/vnd.amazon.eventstream';
const CALLS_A_SECOND = 1;
const AFTER_A_CHANGE = [20, 60, 120, 250, 500, 1000]; // when to look again: kinesis-local takes 50 ms for a change by default
const CHANGES = /^(SplitShard|MergeShards|UpdateShardCount|DeregisterStreamConsumer|DeleteStream)$/;
const REMEMBERED = 1000;

const JSON_FORMAT = {
  contentType: 'application/x-amz-json-1.1',
  encode: (value) => Buffer.from(JSON.stringify(value)),
  record: (record) => record,
};
const CBOR_FORMAT = {
  contentType: 'application/x-amz-cbor-1.1',
  encode,
  record: ({ Data: data, ApproximateArrivalTimestamp: arrived, ...record }) => {
    return { ...record, Data: Buffer.from(data, 'base64'), ApproximateArrivalTimestamp: new Date(arrived * 1000) };
  },
};

class FanOut {
  constructor(socketPath) {
    this.socketPath = socketPath;
    this.agent = new http.Agent({ keepAlive: true });
    this.numbers = new Numbers();
    [this.slots, this.controls, this.calls] = [new Map(), new Map(), []];
  }

  /** A call to kinesis-local, which checks no signature but wants one. */
  upstream(operation, asked) {
    const body = JSON.stringify(asked);
    const headers = {
      'x-amz-target': `Kinesis_20131202.${operation}`,
      'content-type': JSON_FORMAT.contentType,
      'content-length': Buffer.byteLength(body),
      'x-amz-date': new Date().toISOString().replace(/[-:]|\.\d+/g, ''),
      authorization: 'AWS4-HMAC-SHA256 Credential=door, SignedHeaders=host, Signature=none',
    };
    const where = { socketPath: this.socketPath, method: 'POST', path: '/', headers, agent: this.agent };
    return new Promise((resolve, reject) => {
      const request = http.request(where, async (reply) => {
        const parts = [];
        for await (const part of reply) parts.push(part);
        const text = Buffer.concat(parts).toString();
        resolve({ status: reply.statusCode, content: text ? JSON.parse(text) : {} });
      });
      request.on('error', reject);
      request.end(body);
    });
  }

  /** Changes a consumer's knobs, or every consumer's ("*"), adds faults to its plan, and tells its calls so far. */
  control({ consumer, knobs = {}, faults = [] }) {
    const known = this.controls.get(consumer) ?? { knobs: {}, faults: [] };
    this.controls.set(consumer, { knobs: { ...known.knobs, ...knobs }, faults: [...known.faults, ...faults] });
    return { calls: this.calls.filter((call) => call.consumer === consumer) };
  }

  knobsOf(consumer) {
    return { ...KNOBS, ...this.controls.get('*')?.knobs, ...this.controls.get(consumer)?.knobs };
  }

  /** The next fault that is planned for this shard, which is used up; none if it is not `isFit`. */
  faultOf(consumer, shard, isFit = () => true) {
    const planned = this.controls.get(consumer)?.faults ?? [];
    const index = planned.findIndex((fault) => (fault.shard ?? shard) === shard);
    return new Fault(index < 0 || !isFit(planned[index]) ? undefined : planned.splice(index, 1)[0]);
  }

  /** Answers the call: by events, or by why not. */
  async subscribe(asked, isCbor, reply) {
    const call = { at: Date.now(), consumer: asked?.ConsumerARN, shard: asked?.ShardId, position: asked?.StartingPosition };
    if (this.calls.push(call) > REMEMBERED) this.calls.shift();
    const opened = await this.opened(asked).catch((problem) => ['InternalFailureException', String(problem)]);
    call.answer = Array.isArray(opened) ? opened[0] : 'subscribed';
    const format = isCbor ? CBOR_FORMAT : JSON_FORMAT;
    if (Array.isArray(opened)) return refused(reply, format, opened);
    const { slot, ...settled } = opened;
    const subscription = new Subscription({
      asked, format, reply, numbers: this.numbers, upstream: (...each) => this.upstream(...each), ...settled,
    });
    slot.current?.fail('ResourceInUseException', `Another subscription to ${asked.ShardId} has taken over.`);
    slot.current = subscription;
    reply.begin(EVENT_STREAM, settled.fault.isUnchunked);
    await subscription.run();
    if (slot.current === subscription) slot.current = undefined;
  }

  /** What a subscription needs, or code and message of a refusal. */
  async opened(asked) {
    const why = invalid(asked) ?? unfit(asked.StartingPosition);
    if (why) return why;
    const consumer = await this.consumerOf(asked.ConsumerARN);
    if (Array.isArray(consumer)) return consumer;
    const knobs = this.knobsOf(consumer.arn);
    const { refusal } = this.faultOf(consumer.arn, asked.ShardId, (planned) => planned.do === 'refuse');
    if (refusal) return refusal;
    const slot = this.slotOf(consumer.arn, asked.ShardId);
    const early = tooEarly(slot, knobs, asked);
    if (early) return early;
    const { status, content } = await this.iterator(consumer, asked);
    if (status !== 200) return [content.__type, content.message];
    if (asked.DryRun) return ['DryRunOperationException', 'The request would have succeeded.'];
    const raced = tooEarly(slot, knobs, asked, true); // by a call that was answered meanwhile
    if (raced) return raced;
    slot.startedAt = Date.now();
    const fault = this.faultOf(consumer.arn, asked.ShardId); // not before, so that a refused call uses none up
    return { consumer, fault, knobs, slot, iterator: content.ShardIterator };
  }

  async consumerOf(arn) {
    const { status, content } = await this.upstream('DescribeStreamConsumer', { ConsumerARN: arn });
    if (status !== 200) return ['ResourceNotFoundException', `Consumer ${arn} not found.`];
    const { ConsumerStatus: state, StreamARN: streamArn } = content.ConsumerDescription;
    if (state !== 'ACTIVE') return ['ResourceInUseException', `Consumer ${arn} is ${state}, not ACTIVE.`];
    return { arn, streamArn, stream: streamArn.split('/').pop() };
  }

  slotOf(arn, shard) {
    const key = `${arn} ${shard}`;
    if (!this.slots.has(key)) this.slots.set(key, {});
    return this.slots.get(key);
  }

  async iterator({ stream, streamArn }, { ShardId: shard, StartingPosition: position }) {
    const listed = await this.upstream('ListShards', { StreamARN: streamArn });
    const found = listed.content.Shards?.find((each) => each.ShardId === shard);
    if (!found) return { status: 400, content: { __type: 'ResourceNotFoundException', message: `There is no ${shard} in ${stream}.` } };
    this.numbers.begin(stream, shard, found.SequenceNumberRange.StartingSequenceNumber);
    const open = (each) => this.upstream('GetShardIterator', { StreamARN: streamArn, ShardId: shard, ...each });
    const opened = await open(this.numbers.position(position));
    if (opened.content.__type !== 'ResourceNotFoundException') return opened;
    const { content } = await this.upstream('DescribeStreamSummary', { StreamARN: streamArn });
    const horizon = Date.now() - content.StreamDescriptionSummary.RetentionPeriodHours * 3_600_000;
    if (momentOf(position.SequenceNumber) < horizon) return open({ ShardIteratorType: 'TRIM_HORIZON' });
    const message = `StartingSequenceNumber ${position.SequenceNumber} did not come from ${shard} of ${stream}.`;
    return { status: 400, content: { __type: 'InvalidArgumentException', message } };
  }

  /** The body that kinesis-local understands of a GetShardIterator at a quiet shard's number; undefined for others. */
  translated({ operation, asked, isCbor }) {
    if (operation !== 'GetShardIterator' || !this.numbers.standsFor.has(asked?.StartingSequenceNumber)) return undefined;
    const position = this.numbers.position({ Type: asked.ShardIteratorType, SequenceNumber: asked.StartingSequenceNumber });
    return (isCbor ? CBOR_FORMAT : JSON_FORMAT).encode({ ...asked, ...position });
  }

  /** Another call has been answered: what it changed may be news for subscriptions. `text` is the reply's. */
  answered(operation, streamName, text) {
    if (/^PutRecords?$/.test(operation)) {
      const shards = this.numbers.put(streamName, text);
      this.wake((each) => each.consumer.stream === streamName && shards.has(each.asked.ShardId), false);
    } else if (CHANGES.test(operation)) {
      if (operation === 'DeleteStream') this.numbers.forget(streamName);
      const check = () => this.wake((each) => each.consumer.stream === streamName, /^De/.test(operation));
      for (const ms of AFTER_A_CHANGE) setTimeout(check, ms).unref();
    }
  }

  wake(isMeant, check) {
    for (const { current } of this.slots.values()) if (current && isMeant(current)) current.wake(check);
  }
}

/** Why this consumer may not subscribe to this shard yet. */
function tooEarly(slot, { againAfter }, { ConsumerARN: arn, ShardId: shard }, isSecondLook = false) {
  const now = Date.now();
  const last = slot.askedAt;
  if (!isSecondLook) slot.askedAt = now;
  if (now - slot.startedAt < againAfter) {
    return ['ResourceInUseException', `Another active subscription exists for this consumer: ${arn}, ${shard}`];
  }
  if (!isSecondLook && now - last < Math.min(1000 / CALLS_A_SECOND, againAfter / 5)) {
    return ['LimitExceededException', `Rate exceeded for ${arn} and ${shard}: ${CALLS_A_SECOND} call a second`];
  }
  return undefined;
}

function refused(reply, format, [type, message]) {
  const status = type === 'InternalFailureException' ? 500 : 400;
  reply.answer(status, format.contentType, type, format.encode({ __type: type, message }));
}

module.exports = { CONTROL, FanOut };
