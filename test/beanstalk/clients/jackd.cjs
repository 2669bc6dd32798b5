// Each verb of a worker's and an operator's by jackd: node jackd.cjs HOST PORT TUBE, with jackd in NODE_PATH.
const assert = require('assert')
const Jackd = require('jackd').default ?? require('jackd')

const [host, port, tube] = process.argv.slice(2)

async function main() {
  const client = new Jackd()
  await client.connect({ host, port: Number(port) })
  await client.use(tube)
  await client.watch(tube)
  await client.ignore('default')
  const id = await client.put('from node', { priority: 7, delay: 0, ttr: 60 })
  let job = await client.reserveWithTimeout(5)
  assert.equal(String(job.payload), 'from node')
  assert.equal(job.id, id)
  await client.touch(id)
  await client.bury(id, 3)
  assert.equal((await client.peekBuried()).id, id)
  assert.match(await client.statsTube(tube), /^current-jobs-buried: 1$/m)
  assert.equal(await client.kick(10), 1)
  job = await client.reserve()
  await client.release(id, { priority: 1, delay: 1000 })
  assert.equal((await client.peekDelayed()).id, id)
  await client.kickJob(id)
  job = await client.reserveJob(id)
  assert.equal(String(job.payload), 'from node')
  assert.match(await client.statsJob(id), /^releases: 1$/m)
  await client.delete(id)
  await assert.rejects(client.reserveWithTimeout(0))
  assert.match(await client.stats(), /^cmd-put: [1-9]/m)
  await client.quit()
  console.log('ok')
}

main().catch(err => {
  console.error(err)
  process.exit(1)
})
