// Prints scripts of outcomes, and what the originals in JavaScript say to each, as lines of JSON.
//
//     node originals.mjs COUNT SEED
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const cockatiel = require('cockatiel');
const CircuitBreaker = require('opossum');
const { RetryThrottler } = require('@grpc/grpc-js/build/src/retrying-call.js');

const [count, seed] = process.argv.slice(2).map(Number);

// A generator of 32 bits (xorshift), so that a run can be repeated.
let state = (seed * 2654435761 + 1) >>> 0 || 1;
function draw() {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  state >>>= 0;
  return state / 2 ** 32;
}
const within = (least, most) => least + Math.floor(draw() * (most - least + 1));
const choice = (values) => values[within(0, values.length - 1)];
const say = (script) => process.stdout.write(JSON.stringify(script) + '\n');

// The throttling of a channel of gRPC: calls of up to four attempts.
function grpc() {
  // Sixteenths are exact in binary, so a sum is the same in any order.
  const [tokens, sixteenths] = [within(1, 30), within(1, 32)];
  const throttler = new RetryThrottler(tokens, sixteenths / 16);
  const healthy = choice([0.1, 0.5, 0.9]);
  const [calls, attempts] = [[], []];
  for (let call = within(1, 80); call > 0; call--) {
    const outcomes = Array.from({ length: 4 }, () => (draw() < healthy ? 's' : 'f'));
    let made = 0;
    for (const outcome of outcomes) {
      made++;
      if (outcome === 's') {
        throttler.addCallSucceeded();
        break;
      }
      throttler.addCallFailed();
      if (!throttler.canRetryCall()) break;
    }
    calls.push(outcomes.join(''));
    attempts.push(made);
  }
  say({ kind: 'grpc', tokens, sixteenths, calls, attempts });
}

// A breaker of consecutive failures with one probe. The clock is that of the script.
async function breaker() {
  let now = 1_000_000;
  const realNow = Date.now;
  Date.now = () => now;
  const [failures, open] = [within(1, 8), within(1, 1000)];
  const policy = cockatiel.circuitBreaker(cockatiel.handleAll, {
    halfOpenAfter: open,
    breaker: new cockatiel.ConsecutiveBreaker(failures),
  });
  const [steps, ran] = [[], []];
  for (let step = within(1, 60); step > 0; step--) {
    const later = choice([0, 0, 1, within(0, open), open]);
    const good = draw() < 0.4;
    now += later;
    let has = false;
    try {
      await policy.execute(() => {
        has = true;
        if (!good) throw new Error('down');
      });
    } catch {
      // Either the failure or the refusal.
    }
    steps.push([later, good]);
    ran.push(has);
  }
  Date.now = realNow;
  say({ kind: 'cockatiel', failures, open, steps, ran });
}

// The delays of cockatiel without jitter. It has no factor but 2 then.
function delays() {
  const nanos = (most) => Math.round(10 ** (3 + draw() * (6 + Math.log10(most))));
  const base = nanos(5000);
  const cap = Math.max(base, nanos(600000));
  let backoff = new cockatiel.ExponentialBackoff({
    initialDelay: base / 1e6,
    maxDelay: cap / 1e6,
    generator: cockatiel.noJitterGenerator,
  }).next();
  const [retries, found] = [[], []];
  for (let retry = 1; retry <= 20; retry++) {
    retries.push(retry);
    found.push(backoff.duration / 1e3);
    backoff = backoff.next();
  }
  say({ kind: 'delays', original: 'cockatiel', base, factor: 2, cap, retries, longest: found });
}

// The time of opossum: the timers that it sets, and their clock.
let [clock, timers] = [0, []];
const set = (every) => (run, after) => {
  const timer = { run, at: clock + after, every: every && after, unref() {} };
  timers.push(timer);
  return timer;
};
const clear = (timer) => (timers = timers.filter((other) => other !== timer));
function advance(later) {
  const end = clock + later;
  for (;;) {
    const due = timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
    if (!due) break;
    clock = due.at;
    if (due.every) due.at += due.every;
    else clear(due);
    due.run();
  }
  clock = end;
}

// A breaker with a failure rate in a window of 16 slots, and one probe.
async function rate() {
  const real = [setTimeout, setInterval, clearTimeout, clearInterval, Date.now];
  Object.assign(globalThis, { setTimeout: set(false), setInterval: set(true) });
  Object.assign(globalThis, { clearTimeout: clear, clearInterval: clear });
  [clock, timers, Date.now] = [0, [], () => clock];
  const [slot, percent, least, open] = [within(1, 50), within(0, 100), within(0, 8), within(1, 600)];
  let good = false;
  const breaker = new CircuitBreaker(() => (good ? Promise.resolve() : Promise.reject(new Error('down'))), {
    timeout: false,
    errorThresholdPercentage: percent,
    volumeThreshold: least,
    resetTimeout: open,
    rollingCountTimeout: 16 * slot,
    rollingCountBuckets: 16,
    rollingPercentilesEnabled: false,
    enableSnapshots: false,
  });
  const [healthy, ends] = [choice([0.2, 0.5, 0.8]), draw() < 0.5];
  const [steps, ran] = [[], []];
  for (let step = within(1, 80); step > 0; step--) {
    const later = choice([0, 0, 1, slot, within(0, 4 * slot), within(0, open), open]);
    good = draw() < healthy;
    advance(later);
    const isProbe = breaker.halfOpen;
    let has = true;
    try {
      await breaker.fire();
    } catch (error) {
      has = !CircuitBreaker.isOurError(error);
    }
    steps.push([later, good]);
    ran.push(has);
    if (ends && isProbe && breaker.closed) break;
  }
  breaker.shutdown();
  const [timeout, interval, noTimeout, noInterval, now] = real;
  Object.assign(globalThis, { setTimeout: timeout, setInterval: interval });
  Object.assign(globalThis, { clearTimeout: noTimeout, clearInterval: noInterval });
  Date.now = now;
  say({ kind: 'opossum', slot, percent, least, open, steps, ran });
}

for (let script = 0; script < count; script++) {
  grpc();
  await breaker();
  delays();
  await rate();
}
