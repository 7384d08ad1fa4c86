// Prints scripts of outcomes, and what the originals in JavaScript say to each, as lines of JSON.
//
//     node originals.mjs COUNT SEED
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const cockatiel = require('cockatiel');
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

for (let script = 0; script < count; script++) {
  grpc();
  await breaker();
}
