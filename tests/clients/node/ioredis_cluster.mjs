// Prints what ioredis in cluster mode gets from the Redis endpoint. The argument is the port of the endpoint.

import { Cluster } from 'ioredis'

const client = new Cluster([{ host: '127.0.0.1', port: Number(process.argv[2]) }])

const keys = Array.from({ length: 100 }, (_, number) => `clicks:cluster-${number}`)
const words = replies => replies.map(reply => (reply === 'OK' ? 'new' : 'seen'))

const alone = []
for (const key of keys.slice(0, 20)) alone.push(await client.set(key, 1, 'EX', 600, 'NX'))
const pipeline = client.pipeline()
for (const key of keys) pipeline.set(key, 1, 'EX', 600, 'NX')
const pipelined = (await pipeline.exec()).map(([error, reply]) => {
  if (error) throw error
  return reply
})
const added = await client.sadd('clicks', 'cluster-item')
console.log(JSON.stringify({ alone: words(alone), pipelined: words(pipelined), added }))
client.disconnect()
