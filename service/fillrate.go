package service

// The values of PlannedView.RateFrom, which say where the rate of a planned fill comes from.
const (
	RateAsked   = "asked" // the rate is the --rate option
	RateLimit   = "limit" // the rate is the `rate` of [rebuild]
	RateFill    = "fill"  // the rate was measured: another fill into the same sink is running now
	RateAssumed = "assumed"
)

// assumedRate is the assumed rate of a fill, in rows a second, if no fill was measured. Every sink that runs on the
// source's machine is faster.
const assumedRate = 20_000

// rate returns the expected rate of a fill into a sink, in rows a second, and where that rate comes from.
func (p *planner) rate(sink string) (rows float64, from string) {
	if p.asked > 0 {
		return float64(p.asked), RateAsked
	}
	rows, from = assumedRate, RateAssumed
	if now := p.fills(sink); now > 0 {
		rows, from = now, RateFill
	}
	if limit := float64(p.Config.Rebuild.Rate); limit > 0 && limit < rows {
		return limit, RateLimit
	}
	return rows, from
}

// fills returns how many rows a second a running fill into the sink scans. It returns 0 if no fill runs or the fill's
// rate is unknown.
func (p *planner) fills(sink string) (rate float64) {
	for _, v := range p.running {
		if v.Sink == sink && v.ETA != nil && *v.ETA > 0 && v.Progress > 0 {
			rate = max(rate, float64(v.FilledRows)*(1/v.Progress-1) / *v.ETA)
		}
	}
	return rate
}
