package cli

import _ "github.com/conq-go/conq/kv/etcd" // --store etcd://host:2379
