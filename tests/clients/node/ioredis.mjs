// Executes the script of ../README.md with ioredis. The argument is the port of the Redis endpoint.

import { Redis } from 'ioredis'
import { run } from './script.mjs'

const [node, port] = ['127.0.0.1', Number(process.argv[2])]

// shown in docs/reference/redis.md
const client = new Redis(port, node)
client.on('error', console.error) // the client reconnects automatically

async function isNew(event) {
  return (await client.set(`clicks:${event}`, 1, 'EX', 600, 'NX')) === 'OK'
}

async function areNew(events) {
  const pipeline = client.pipeline()
  for (const event of events) pipeline.set(`clicks:${event}`, 1, 'EX', 600, 'NX')
  return (await pipeline.exec()).map(([error, reply]) => {
    if (error) throw error
    return reply === 'OK'
  })
}
// shown until here

async function transaction() {
  const replies = await client
    .multi()
    .set('clicks:transaction', 1, 'EX', 600, 'NX')
    .set('clicks:transaction', 1, 'EX', 600, 'NX')
    .sadd('clicks', 'transaction-item')
    .exists('clicks:transaction')
    .exec()
  const [first, second, added, exists] = replies.map(([, reply]) => reply)
  return [first === 'OK' ? 'new' : 'seen', second === 'OK' ? 'new' : 'seen', added, exists]
}

async function bloom() {
  return [
    await client.call('BF.ADD', 'clicks', 'bloom'),
    await client.call('BF.ADD', 'clicks', 'bloom'),
    ...(await client.call('BF.MADD', 'clicks', 'bloom', 'bloom-2')),
    await client.call('BF.EXISTS', 'clicks', 'bloom-2'),
    await client.call('BF.EXISTS', 'clicks', 'bloom-3'),
  ]
}

function calls(client) {
  return {
    name: 'ioredis',
    isNew,
    areNew,
    transaction,
    bloom,
    send: (...words) => client.call(...words),
    hold: async (key, ms) => (await client.set(key, 1, 'PX', ms, 'NX')) === 'OK',
    letGo: (key) => client.del(key),
    another: () => calls(client.duplicate()),
    close: () => client.quit(),
  }
}

await run(calls(client))
