// Executes the script of ../README.md with the clients that `open` returns (see node_redis.mjs and ioredis.mjs).

import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'

const PATIENCE_MS = 120_000
const EVENTS_PER_ROUND = 100
const ALONE = Array.from({ length: 20 }, (_, number) => `alone-${number}`)
const PIPELINED = Array.from({ length: 1000 }, (_, number) => `pipelined-${number}`)

const tell = (step, saw, more = {}) => console.log(JSON.stringify({ step, saw, ...more }))
const words = (answers) => answers.map((answer) => (answer ? 'new' : 'seen'))

// Returns whether the error is a reply of the endpoint. Otherwise the connection was lost.
const isReply = (error) => /^[A-Z]{2,} /.test(error.message) && !/^E?CONN/.test(error.message)

async function alone(client) {
  const answers = []
  for (const event of [...ALONE, ...ALONE]) answers.push(await client.isNew(event))
  return words(answers)
}

async function claims(client) {
  const [mine, other] = [await client.another(), await client.another()]
  const saw = [
    await mine.send('FS.CLAIM', 'jobs:1', 'PX', '60000'),
    await other.send('FS.CLAIM', 'jobs:1', 'PX', '60000'),
    await mine.send('FS.CONFIRM', 'jobs:1'),
    await other.send('FS.CLAIM', 'jobs:1', 'PX', '60000'),
  ]
  const [code, fence] = await mine.send('FS.CLAIM', 'jobs:2', 'PX', '60000', 'WITHFENCE')
  saw.push(code, await other.send('FS.CONFIRM', 'jobs:2', 'FENCE', fence))
  for (const one of [mine, other]) saw.push((await one.hold('jobs:3', 60_000)) ? 'new' : 'seen')
  saw.push(await mine.letGo('jobs:3'), (await other.hold('jobs:3', 60_000)) ? 'new' : 'seen')
  await Promise.all([mine.close(), other.close()])
  return saw
}

async function refused(client) {
  try {
    return await client.send('SET', 'clicks:too-long', '1', 'NX', 'EX', '7200')
  } catch (error) {
    return error.message
  }
}

// Records the named events of a round. Because of the name, a retry gets its first verdicts.
function observe(client, number) {
  const items = Array.from({ length: EVENTS_PER_ROUND }, (_, place) => `named-${number}-${place}`)
  return client.send('FS.OBSERVE', 'clicks', 'ID', client.name, `${number * EVENTS_PER_ROUND}`, 'ITEMS', ...items)
}

// Returns the answers to the events of a round. Events that are undecided, or were never answered, are sent again.
class Round {
  constructor(client, number) {
    Object.assign(this, { client, number, tries: 0, heard: new Set(), named: null })
    this.keys = new Map()
    for (let place = 0; place < EVENTS_PER_ROUND; place++) this.keys.set(`round-${number}-${place}`, null)
  }

  async run() {
    const deadline = Date.now() + PATIENCE_MS
    while (!(await this.attempt())) {
      if (Date.now() > deadline) throw new Error(`no verdict: ${[...this.heard]}`)
      await pause(20)
    }
    tell('round', [...this.keys.values()], { named: this.named, tries: this.tries, heard: [...this.heard].sort() })
  }

  async attempt() {
    this.tries += 1
    await this.askNamed().catch((error) => this.failed(error))
    await this.askKeys()
    return this.named !== null && [...this.keys.values()].every((verdict) => verdict !== null)
  }

  failed(error) {
    if (isReply(error)) this.heard.add(error.message)
  }

  async askNamed() {
    if (this.named !== null) return
    const codes = await observe(this.client, this.number)
    for (const code of codes.filter((code) => code < 0)) this.heard.add(`UNDECIDED ${code}`)
    if (codes.every((code) => code >= 0)) this.named = codes
  }

  async askKeys() {
    const open = [...this.keys].filter(([, verdict]) => verdict === null).map(([event]) => event)
    // Commands that are sent at once form a pipeline.
    const answers = await Promise.allSettled(open.map((event) => this.client.isNew(event)))
    answers.forEach(({ status, value, reason }, place) => {
      if (status === 'fulfilled') this.keys.set(open[place], value ? 'new' : 'seen')
      else this.failed(reason)
    })
  }
}

export async function run(client) {
  tell('connect', await client.send('PING'))
  tell('alone', await alone(client))
  tell('pipelined', words(await client.areNew(PIPELINED.flatMap((event) => [event, event]))))
  tell('transaction', await client.transaction())
  tell('bloom', (await client.bloom()).map(Boolean))
  tell('claims', await claims(client))
  tell('refused', await refused(client))
  const rounds = []
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'over') break
    rounds.push(new Round(client, rounds.length))
    await rounds.at(-1).run()
  }
  const known = rounds.flatMap((round) => [...round.keys.keys()])
  tell('again', words(await client.areNew([...ALONE, ...PIPELINED, ...known])))
  const named = []
  for (const round of rounds) named.push(...(await observe(client, round.number)))
  tell('named again', named)
  await client.close()
  process.stdin.destroy() // an open standard input would keep the process running
}
