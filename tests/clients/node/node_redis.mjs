// Executes the script of ../README.md with node-redis. The argument is the port of the Redis endpoint.

import { createClient } from 'redis'
import { run } from './script.mjs'

const [node, port] = ['127.0.0.1', Number(process.argv[2])]

// shown in docs/reference/redis.md
const client = createClient({ url: `redis://${node}:${port}` })
client.on('error', console.error) // the client reconnects automatically
await client.connect()

async function isNew(event) {
  return (await client.set(`clicks:${event}`, '1', { NX: true, EX: 600 })) === 'OK'
}

// Commands that are sent at once form a pipeline.
function areNew(events) {
  return Promise.all(events.map(isNew))
}
// shown until here

async function transaction() {
  const set = { NX: true, EX: 600 }
  const [first, second, added, exists] = await client
    .multi()
    .set('clicks:transaction', '1', set)
    .set('clicks:transaction', '1', set)
    .sAdd('clicks', 'transaction-item')
    .exists('clicks:transaction')
    .exec()
  return [first === 'OK' ? 'new' : 'seen', second === 'OK' ? 'new' : 'seen', added, exists]
}

async function bloom() {
  const { bf } = client
  return [
    await bf.add('clicks', 'bloom'),
    await bf.add('clicks', 'bloom'),
    ...(await bf.mAdd('clicks', ['bloom', 'bloom-2'])),
    await bf.exists('clicks', 'bloom-2'),
    await bf.exists('clicks', 'bloom-3'),
  ]
}

function calls(client) {
  return {
    name: 'node-redis',
    isNew,
    areNew,
    transaction,
    bloom,
    send: (...words) => client.sendCommand(words),
    hold: async (key, ms) => (await client.set(key, '1', { NX: true, PX: ms })) === 'OK',
    letGo: (key) => client.del(key),
    another: async () => calls(await client.duplicate().connect()),
    close: () => client.close(),
  }
}

await run(calls(client))
