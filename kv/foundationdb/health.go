package foundationdb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/conq-go/conq/kv"
)

// statusKey has what fdbcli's "status json" prints. Any client may read it.
var statusKey = []byte("\xff\xff/status/json")

// clusterStatus is the part of it that Health tells.
type clusterStatus struct {
	Client struct {
		Coordinators struct {
			Coordinators []struct {
				Address   string `json:"address"`
				Reachable bool   `json:"reachable"`
			} `json:"coordinators"`
		} `json:"coordinators"`
		Database struct {
			Available bool `json:"available"`
		} `json:"database_status"`
	} `json:"client"`
	Cluster struct {
		Data struct {
			State struct {
				Healthy     bool   `json:"healthy"`
				Description string `json:"description"`
				Name        string `json:"name"`
			} `json:"state"`
			Bytes int64 `json:"total_disk_used_bytes"`
		} `json:"data"`
		Processes map[string]struct {
			Address  string `json:"address"`
			Excluded bool   `json:"excluded"`
			Degraded bool   `json:"degraded"`
			Roles    []struct {
				Role string `json:"role"`
			} `json:"roles"`
		} `json:"processes"`
	} `json:"cluster"`
}

// Health reads the status of the cluster: see [kv.HealthOf].
func (db *DB) Health(ctx context.Context) (kv.Health, error) {
	c, err := db.begin(ctx)
	if err != nil {
		return kv.Health{}, err
	}
	defer c.release()
	text, err := await(c.ctx, c.tr.get(statusKey))
	if err != nil {
		return kv.Health{}, c.fault(err)
	}
	var s clusterStatus
	if err := json.Unmarshal(text, &s); err != nil {
		return kv.Health{}, fmt.Errorf("foundationdb: the cluster's status: %w", err)
	}
	return s.health(), nil
}

func (s *clusterStatus) health() kv.Health {
	h := kv.Health{Bytes: s.Cluster.Data.Bytes}
	switch state := s.Cluster.Data.State; {
	case !s.Client.Database.Available:
		h.Problem = "the database is not available"
	case !state.Healthy:
		h.Problem = cmp.Or(state.Description, state.Name, "its data is not healthy")
	}
	for _, c := range s.Client.Coordinators.Coordinators {
		if !c.Reachable {
			h.Members = append(h.Members, kv.Member{Name: c.Address, Down: true, Detail: "a coordinator that can't be reached"})
		}
	}
	for _, p := range s.Cluster.Processes {
		m := kv.Member{Name: p.Address, Down: p.Excluded || p.Degraded}
		var roles []string
		for _, r := range p.Roles {
			roles = append(roles, strings.ReplaceAll(r.Role, "_", " "))
		}
		slices.Sort(roles)
		m.Detail = strings.Join(slices.Compact(roles), ", ")
		switch {
		case p.Excluded:
			m.Detail = strings.TrimPrefix(m.Detail+", excluded", ", ")
		case p.Degraded:
			m.Detail = strings.TrimPrefix(m.Detail+", degraded", ", ")
		}
		h.Members = append(h.Members, m)
	}
	slices.SortStableFunc(h.Members, func(a, b kv.Member) int { return cmp.Compare(a.Name, b.Name) })
	return h
}
