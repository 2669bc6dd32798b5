# Each verb of a worker's and an operator's by Beaneater: ruby beaneater.rb HOST PORT TUBE
require 'beaneater'

def check(what, got, want)
  abort "#{what}: #{got.inspect}, want #{want.inspect}" unless got == want
end

beanstalk = Beaneater.new("#{ARGV[0]}:#{ARGV[1]}")
tube = beanstalk.tubes[ARGV[2]]
put = tube.put('from ruby', pri: 7, delay: 0, ttr: 60)
check 'put', put[:status], 'INSERTED'
beanstalk.tubes.watch!(ARGV[2])
check 'watched', beanstalk.tubes.watched.map(&:name), [ARGV[2]]
job = beanstalk.tubes.reserve(5)
check 'body', job.body, 'from ruby'
check 'id', job.id, put[:id]
check 'ttr', job.ttr, 60
check 'pri', job.pri, 7
check 'state', job.stats.state, 'reserved'
job.touch
job.bury(pri: 3)
check 'buried', tube.peek(:buried).id, job.id
check 'stats', tube.stats.current_jobs_buried, 1
tube.kick(10)
check 'ready', tube.peek(:ready).stats.kicks, 1
job = beanstalk.tubes.reserve(5)
job.release(pri: 1, delay: 1000)
check 'delayed', tube.peek(:delayed).stats.releases, 1
job.kick
job = beanstalk.tubes.reserve(5)
check 'reserves', job.stats.reserves, 3
job.delete
check 'deleted', beanstalk.jobs.find(job.id), nil
begin
  beanstalk.tubes.reserve(0)
  abort 'a job is left'
rescue Beaneater::TimedOutError
end
check 'puts', beanstalk.stats.cmd_put >= 1, true
beanstalk.close
puts 'ok'
