// kafkajs. Its consumer knows groups alone, so what reads here is its broker, one layer below.

const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const lz4 = require('lz4-napi')
const zstd = require('@mongodb-js/zstd')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer), decompress: buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: encoder => zstd.compress(encoder.buffer), decompress: buffer => zstd.decompress(buffer),
})

const CODECS = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
}
const [bootstrap, command, ...rest] = process.argv.slice(2)
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR, retry: { retries: 3 } })
const records = count => Array.from({ length: count }, (_, i) =>
  ({ key: `k${i}`, value: `v${i}-` + 'x'.repeat(50), partition: 0 }))

async function write(topic, codec, messages) {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const [done] = await producer.send({ topic, messages, acks: -1, compression: CODECS[codec] })
  await producer.disconnect()
  if (done.errorCode) throw new Error(`error ${done.errorCode}`)
  return Number(done.baseOffset)
}

async function withAdmin(use) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await use(admin)
  } finally {
    await admin.disconnect()
  }
}

async function read(topic, start, count, maxBytes = 1 << 20, maxWaitTime = 500) {
  const create = Object.getOwnPropertySymbols(kafka).find(s => String(s).includes('createCluster'))
  const cluster = kafka[create]({ allowAutoTopicCreation: true })
  await cluster.connect()
  await cluster.addTargetTopic(topic)
  const [{ leader }] = await cluster.findTopicPartitionMetadata(topic)
  const broker = await cluster.findBroker({ nodeId: leader })
  const found = []
  for (let offset = start, tries = 0; found.length < count && tries < 100; tries++) {
    const partitions = [{ partition: 0, fetchOffset: String(offset), maxBytes }]
    const answer = await broker.fetch({ maxWaitTime, minBytes: 1, maxBytes, topics: [{ topic, partitions }] })
    for (const message of answer.responses[0].partitions[0].messages) {
      if (Number(message.offset) < offset || found.length === count) continue
      found.push(message)
      offset = Number(message.offset) + 1
    }
  }
  await cluster.disconnect()
  return found
}

const CHECKS = {
  async seek(topic) {
    await write(topic, 'none', records(100))
    const found = await read(topic, 42, 2)
    if (found.map(m => m.offset).join() !== '42,43') throw new Error(found.map(m => m.offset).join())
  },
  async limits_below_a_batch(topic) {
    await write(topic, 'none', [{ key: 'k', value: 'y'.repeat(50000), partition: 0 }])
    const [found] = await read(topic, 0, 1, 1000)
    if (found.value.length !== 50000) throw new Error(`${found.value.length} bytes`)
  },
  async timestamps(topic) {
    const base = Date.now() - 3600000
    await write(topic, 'none', records(10).map((r, i) => ({ ...r, timestamp: String(base + i * 1000) })))
    const [found] = await withAdmin(admin => admin.fetchTopicOffsetsByTimestamp(topic, base + 3500))
    if (found.offset !== '4') throw new Error(`offset ${found.offset}`)
  },
  async large_records(topic) {
    await write(topic, 'none', [{ key: 'k', value: 'z'.repeat(900000), partition: 0 }])
    try {
      await write(topic, 'none', [{ key: 'k', value: 'z'.repeat(2000000), partition: 0 }])
    } catch (error) {
      if (error.type === 'MESSAGE_TOO_LARGE') return
      throw error
    }
    throw new Error('2 MB were taken')
  },
  async long_poll(topic) {
    await write(topic, 'none', records(1))
    const waiting = read(topic, 1, 1, 1 << 20, 8000)
    await new Promise(resolve => setTimeout(resolve, 1000))
    const began = Date.now()
    await write(topic, 'none', [{ key: 'k', value: 'late', partition: 0 }])
    const [late] = await waiting
    if (late.value.toString() !== 'late' || Date.now() - began > 5000) throw new Error(`after ${Date.now() - began} ms`)
  },
  async idempotence(topic) {
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    for (let i = 0; i < 100; i++) {
      const [done] = await producer.send({ topic, messages: records(20), acks: -1 })
      if (Number(done.baseOffset) !== i * 20) throw new Error(`batch ${i} at ${done.baseOffset}`)
    }
    await producer.disconnect()
  },
  async delete_records(topic) {
    await write(topic, 'none', records(20))
    const [found] = await withAdmin(async admin => {
      // It must have seen the topic before it deletes from it.
      await admin.fetchTopicOffsets(topic)
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '7' }] })
      return admin.fetchTopicOffsets(topic)
    })
    if (found.low !== '7') throw new Error(`begins at ${found.low}`)
    try {
      await read(topic, 0, 1)
    } catch (error) {
      if (error.type === 'OFFSET_OUT_OF_RANGE') return
      throw error
    }
    throw new Error('offset 0 is still there')
  },
  async admin(topic) {
    await withAdmin(async admin => {
      await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 1 }] })
      await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
      const offsets = await admin.fetchTopicOffsets(topic)
      if (offsets.length !== 3) throw new Error(`${offsets.length} partitions`)
      await admin.deleteTopics({ topics: [topic] })
      if ((await admin.listTopics()).includes(topic)) throw new Error('still there')
    })
  },
}

async function main() {
  if (command === 'write') {
    for (let i = 1; i < rest.length; i += 2) {
      const first = await write(rest[i], rest[i + 1], records(Number(rest[0])))
      if (first !== 0) throw new Error(`begins at ${first}`)
    }
  } else if (command === 'read') {
    for (const topic of rest.slice(1)) {
      for (const m of await read(topic, 0, Number(rest[0]))) {
        console.log([topic, m.offset, m.key.toString(), m.value.toString()].join('\t'))
      }
    }
  } else {
    for (const [name, check] of Object.entries(CHECKS)) {
      try {
        await check(`${rest[0]}-${name}`)
        console.log('ok', name)
      } catch (error) {
        console.log(`failed ${name}: ${error.message}`)
      }
    }
  }
}

main().then(() => process.exit(0), error => { console.error(error); process.exit(1) })
