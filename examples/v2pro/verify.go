package v2pro

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"replicator/internal/lab"
)

// Sinks are the servers that contain the views.
type Sinks struct {
	MySQL   lab.MySQL
	Redis   lab.Redis
	Elastic lab.Elastic
	Index   string // the index in Elasticsearch
}

// Verify compares every view with the newest version of every account, using the servers' own clients. No other client
// may write while Verify runs.
func Verify(ctx context.Context, source lab.MySQL, sinks Sinks) (held int, differences []string, err error) {
	accounts, err := newest(ctx, source)
	if err != nil {
		return 0, nil, err
	}
	want := expected(accounts)
	got, err := sinks.held(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, view := range []string{"account_state", "index_account_owner", "currency_total", "account_hash", "account_json",
		"accounts_by_status", "accounts_by_tag", "points_total", "level_ranking", "account_search"} {
		held += len(got[view])
		differences = append(differences, lab.Differences(view, want[view], got[view])...)
	}
	return held, append(differences, emails(accounts, got["account_by_email"])...), nil
}

// account is the newest version of an account.
type account struct {
	id, version string
	state       map[string]any
}

func newest(ctx context.Context, source lab.MySQL) ([]account, error) {
	rows, err := source.Rows(ctx, `SELECT a.entity_id, a.version, a.state FROM account a
		JOIN (SELECT entity_id, MAX(version) version FROM account GROUP BY entity_id) newest USING (entity_id, version)`)
	if err != nil {
		return nil, err
	}
	var accounts []account
	for _, r := range rows {
		a := account{id: r[0], version: r[1]}
		if a.state, err = decode(r[2]); err != nil {
			return nil, fmt.Errorf("account %s: %w", a.id, err)
		}
		accounts = append(accounts, a)
	}
	return accounts, nil
}

func decode(text string) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	err := d.Decode(&m)
	return m, err
}

// text returns a property as the mysql client prints it.
func (a *account) text(name string) string {
	if v := a.state[name]; v != nil {
		return fmt.Sprint(v)
	}
	return "NULL"
}

func expected(accounts []account) map[string]lab.Held {
	want := map[string]lab.Held{}
	for _, view := range []string{"account_state", "index_account_owner", "account_hash", "account_json",
		"accounts_by_status", "accounts_by_tag",
		"level_ranking", "account_search"} {
		want[view] = lab.Held{}
	}
	money, points := sums{}, sums{}
	for _, a := range accounts {
		want["account_state"][a.id] = strings.Join([]string{a.version, a.text("owner"), a.text("email"),
			a.text("currency"), a.text("status"),
			a.text("balance"), a.text("points")}, " | ")
		if a.state["owner"] != nil {
			want["index_account_owner"][a.id] = a.text("owner")
		}
		// As in the views, a condition on a missing property is false.
		open := a.state["status"] != nil && a.state["status"] != "closed"
		if open {
			want["account_search"][a.id] = a.pick("owner", "email", "status", "balance", "points", "tags", "address")
			money.add(a.state["currency"], a.state["balance"])
		}
		points.add(a.state["currency"], a.state["points"])
		want["account_json"]["v2pro:account_json:"+a.id] = a.pick("owner", "balance", "points", "tags", "address")
		a.hash(want["account_hash"])
		if a.state["status"] != nil {
			want["accounts_by_status"]["v2pro:status:"+a.text("status")+" "+a.id] = ""
		}
		tags, _ := a.state["tags"].([]any)
		for _, tag := range tags {
			want["accounts_by_tag"][fmt.Sprintf("v2pro:tag:%v %s", tag, a.id)] = ""
		}
		if level := a.state["level"]; a.state["currency"] != nil && level != nil {
			want["level_ranking"]["v2pro:levels:"+a.text("currency")+" "+a.id] = fmt.Sprint(level)
		}
	}
	want["currency_total"], want["points_total"] = money.held("", 4), points.held("v2pro:points:", 0)
	return want
}

// hash adds the fields that the account's hash in Redis should have.
func (a *account) hash(to lab.Held) {
	key := "v2pro:account:" + a.id + " "
	to[key+"version"] = a.version
	for _, name := range []string{"owner", "balance", "points"} {
		if a.state[name] != nil {
			to[key+name] = a.text(name)
		}
	}
	if address, ok := a.state["address"].(map[string]any); ok {
		to[key+"city"] = fmt.Sprint(address["city"])
	}
	if a.state["email"] != nil {
		to[key+"mail"] = strings.ToLower(a.text("email"))
	}
}

// pick returns a JSON document with some properties and the version. Its members are sorted by name, and numbers keep
// all digits.
func (a *account) pick(names ...string) string {
	m := map[string]any{"version": json.Number(a.version)}
	for _, n := range names {
		if a.state[n] != nil {
			m[n] = a.state[n]
		}
	}
	return encode(m)
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// sums holds an exact sum for each group.
type sums map[string]*big.Rat

func (s sums) add(group, amount any) {
	n, ok := amount.(json.Number)
	if group == nil || !ok {
		return
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return
	}
	if s[group.(string)] == nil {
		s[group.(string)] = new(big.Rat)
	}
	s[group.(string)].Add(s[group.(string)], r)
}

// held returns the sums as a view's content. It omits sums of 0, which the sinks don't store.
func (s sums) held(prefix string, decimals int) lab.Held {
	h := lab.Held{}
	for group, sum := range s {
		if sum.Sign() != 0 {
			h[prefix+group] = sum.FloatString(decimals)
		}
	}
	return h
}

func (s Sinks) held(ctx context.Context) (map[string]lab.Held, error) {
	got := map[string]lab.Held{}
	var err error
	keep := func(view string, h lab.Held, e error) {
		if e != nil && err == nil {
			err = fmt.Errorf("view %s: %w", view, e)
		}
		got[view] = h
	}
	s.fromMySQL(ctx, keep)
	s.fromRedis(ctx, keep)
	documents, e := s.Elastic.Documents(ctx, s.Index)
	h := lab.Held{}
	for id, d := range documents {
		h[id] = encode(d)
	}
	keep("account_search", h, e)
	return got, err
}

func (s Sinks) fromMySQL(ctx context.Context, keep func(view string, h lab.Held, err error)) {
	for view, query := range map[string]string{
		"account_state":       "SELECT entity_id, version, owner, email, currency, status, balance, points FROM account_state",
		"index_account_owner": "SELECT entity_id, owner FROM index_account_owner",
		"currency_total":      "SELECT currency, balance FROM currency_total",
	} {
		rows, err := s.MySQL.Rows(ctx, query)
		h := lab.Held{}
		for _, r := range rows {
			h[r[0]] = strings.Join(r[1:], " | ")
		}
		keep(view, h, err)
	}
}

func (s Sinks) fromRedis(ctx context.Context, keep func(view string, h lab.Held, err error)) {
	h, err := s.Redis.Hashes(ctx, "v2pro:account:*")
	keep("account_hash", h, err)
	if h, err = s.Redis.Strings(ctx, "v2pro:account_json:*"); err == nil {
		for key, text := range h {
			m, e := decode(text)
			h[key], err = encode(m), e
		}
	}
	keep("account_json", h, err)
	h, err = s.Redis.Sets(ctx, "v2pro:status:*")
	keep("accounts_by_status", h, err)
	h, err = s.Redis.Sets(ctx, "v2pro:tag:*")
	keep("accounts_by_tag", h, err)
	h, err = s.Redis.Strings(ctx, "v2pro:email:*")
	keep("account_by_email", h, err)
	h, err = s.Redis.Strings(ctx, "v2pro:points:*")
	keep("points_total", h, err)
	levels := lab.Held{}
	keys, err := s.Redis.Keys(ctx, "v2pro:levels:*")
	for _, key := range keys {
		scores, e := s.Redis.Scores(ctx, key)
		if err == nil {
			err = e
		}
		for member, score := range scores {
			levels[key+" "+member] = score
		}
	}
	keep("level_ranking", levels, err)
}

// emails checks the view that leads from an email to the account that owns it. If several accounts have the same email,
// the view may name any of them. No other email may exist.
func emails(accounts []account, got lab.Held) []string {
	claims := map[string][]string{}
	for _, a := range accounts {
		if a.state["email"] != nil {
			key := "v2pro:email:" + a.text("email")
			claims[key] = append(claims[key], a.id)
		}
	}
	want := lab.Held{}
	for key, ids := range claims {
		want[key] = ids[0]
		if slices.Contains(ids, got[key]) {
			want[key] = got[key]
		}
	}
	return lab.Differences("account_by_email", want, got)
}
