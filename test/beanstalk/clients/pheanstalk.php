<?php
// Each verb of a worker's and an operator's by Pheanstalk: php pheanstalk.php HOST PORT TUBE
require 'Pheanstalk/autoload.php';

function check(string $what, $got, $want): void
{
    if ($got != $want) {
        fwrite(STDERR, "$what: " . var_export($got, true) . ', want ' . var_export($want, true) . "\n");
        exit(1);
    }
}

[, $host, $port, $tube] = $argv;
$client = Pheanstalk\Pheanstalk::create($host, (int) $port);
$put = $client->useTube($tube)->put('from php', 7, 0, 60);
check('watched', $client->watchOnly($tube)->listTubesWatched(), [$tube]);
$job = $client->reserveWithTimeout(5);
check('body', $job->getData(), 'from php');
check('id', $job->getId(), $put->getId());
check('ttr', $client->statsJob($job)['ttr'], 60);
$client->touch($job);
$client->bury($job, 3);
check('buried', $client->peekBuried()->getId(), $job->getId());
check('stats', $client->statsTube($tube)['current-jobs-buried'], 1);
check('kicked', $client->kick(10), 1);
check('kicks', $client->statsJob($client->peekReady())['kicks'], 1);
$job = $client->reserve();
$client->release($job, 1, 1000);
check('delayed', $client->peekDelayed()->getId(), $job->getId());
$client->kickJob($job);
$job = $client->reserve();
check('reserves', $client->statsJob($job)['reserves'], 3);
$client->pauseTube($tube, 1);
$client->resumeTube($tube);
$client->delete($job);
check('left', $client->reserveWithTimeout(0), null);
check('puts', $client->stats()['cmd-put'] >= 1, true);
check('tubes', in_array($tube, $client->listTubes()), true);
echo "ok\n";
