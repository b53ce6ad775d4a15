// What Kinesis refuses before it looks at any resource: botocore's model has the patterns, GetShardIterator's page the rules.
'use strict';

const TYPES = ['AFTER_SEQUENCE_NUMBER', 'LATEST', 'AT_TIMESTAMP', 'AT_SEQUENCE_NUMBER', 'TRIM_HORIZON'];
const CONSUMER = /^(arn):aws.*:kinesis:.*:\d{12}:.*stream\/[a-zA-Z0-9_.-]+\/consumer\/[a-zA-Z0-9_.-]+:[0-9]+$/;
const SHARD = /^[a-zA-Z0-9_.-]{1,128}$/;
const NUMBER = /^(0|([1-9]\d{0,128}))$/;

/** Code and message of a request to SubscribeToShard that breaks the model. */
function invalid(asked) {
  if (asked === null || typeof asked !== 'object') return ['SerializationException', 'The request is neither JSON nor CBOR'];
  const { ConsumerARN: consumer, ShardId: shard, StartingPosition: position } = asked;
  const { Type: type, SequenceNumber: number } = position ?? {};
  const wrong = [
    failure('consumerARN', consumer, pattern(CONSUMER)),
    failure('shardId', shard, pattern(SHARD)),
    failure('startingPosition', position),
    position && failure('startingPosition.type', type, [(text) => TYPES.includes(text), `enum value set: [${TYPES.join(', ')}]`]),
    number !== undefined && failure('startingPosition.sequenceNumber', number, pattern(NUMBER)),
  ].filter(Boolean);
  if (!wrong.length) return undefined;
  const said = `${wrong.length} validation error${wrong.length > 1 ? 's' : ''} detected: ${wrong.join('; ')}`;
  return ['ValidationException', said];
}

function pattern(expression) {
  return [(text) => expression.test(text), `regular expression pattern: ${expression.source}`];
}

function failure(name, value, [fits, rule] = []) {
  if (value === undefined || value === null) {
    return `Value null at '${name}' failed to satisfy constraint: Member must not be null`;
  }
  if (!fits || fits(value)) return undefined;
  return `Value '${value}' at '${name}' failed to satisfy constraint: Member must satisfy ${rule}`;
}

/** Code and message of a position whose parts do not fit its type. */
function unfit({ Type: type, SequenceNumber: number, Timestamp: timestamp }) {
  const [hasNumber, hasTime] = [number !== undefined && number !== null, timestamp !== undefined && timestamp !== null];
  const [wantsNumber, wantsTime] = [/SEQUENCE_NUMBER$/.test(type), type === 'AT_TIMESTAMP'];
  if (hasNumber === wantsNumber && hasTime === wantsTime) return undefined;
  return [
    'InvalidArgumentException',
    'Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and SequenceNumber, or ' +
      '(2) AT_TIMESTAMP and Timestamp, or (3) TRIM_HORIZON or LATEST and neither.',
  ];
}

module.exports = { invalid, unfit };
