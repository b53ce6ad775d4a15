// What a test plants in a consumer's subscriptions: each fault happens once, in the next subscription to its shard.
//
//   refuse           the call itself fails with `code`
//   cut              the connection is destroyed, without an end
//   exception, error an exception event, or an error outside the model, of `code`; then the end
//   end              the subscription ends normally, too early
//   silence          nothing more is sent, and the connection stays open
//   delay            the event comes `ms` late
//   repeat           the initial response comes twice
//   no_initial       the initial response is missing
//   null_end         an event without a continuation, as at the end of a shard, then the end; the shard goes on
//   no_children      the last event of a shard that has ended names no children, however late it comes
//   damage           a message with a wrong CRC
//   unchunked        over HTTP/1.1 the reply has neither chunks nor a length: it ends with its connection
//
// `at` counts events: at 0 the fault comes before the first one.
'use strict';

const stream = require('./event_stream.cjs');

const NONE = Object.freeze({ do: null, at: 0 });
const NOT_AN_EVENT = ['repeat', 'no_initial', 'unchunked', 'no_children'];

class Fault {
  constructor(planned = NONE) {
    this.planned = { at: 0, code: 'InternalFailureException', message: 'planted', ...planned };
  }

  /** Why the call itself fails; undefined if it does not. */
  get refusal() {
    return this.planned.do === 'refuse' ? [this.planned.code, this.planned.message] : undefined;
  }

  get isUnchunked() {
    return this.planned.do === 'unchunked';
  }

  childrenOf(page) {
    return this.planned.do === 'no_children' ? [] : (page.ChildShards ?? []);
  }

  begin(subscription, initial) {
    const times = { repeat: 2, no_initial: 0 }[this.planned.do] ?? 1;
    for (let time = 0; time < times; time++) subscription.reply.write(initial);
  }

  /** Called before each event. */
  async before(subscription) {
    const { do: what, at, code, message, ms } = this.planned;
    if (what === null || NOT_AN_EVENT.includes(what) || subscription.sent !== at) return;
    this.planned = { ...NONE, at: Infinity };
    if (what === 'delay') return this.wait(subscription, ms);
    if (what === 'silence') return this.wait(subscription, ms ?? subscription.knobs.lasts);
    if (what === 'exception') return subscription.fail(code, message);
    if (what === 'error') return subscription.end(stream.error(code, message));
    if (what === 'damage') return subscription.end(damaged(subscription));
    if (what === 'null_end') return subscription.end(withoutContinuation(subscription));
    if (what === 'end') return subscription.end();
    if (what === 'cut') {
      subscription.end();
      subscription.reply.cut();
    }
  }

  async wait(subscription, ms) {
    const until = Date.now() + ms;
    while (!subscription.over && Date.now() < until) await subscription.pause(until - Date.now());
  }
}

function withoutContinuation({ format }) {
  return stream.event('SubscribeToShardEvent', format.contentType, format.encode({ Records: [], MillisBehindLatest: 0 }));
}

function damaged(subscription) {
  const whole = withoutContinuation(subscription);
  whole[whole.length - 1] ^= 1;
  return whole;
}

module.exports = { Fault };
