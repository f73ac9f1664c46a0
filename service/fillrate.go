package service

// Where the rate of a planned fill is from.
const (
	RateAsked   = "asked" // --rate
	RateLimit   = "limit" // [rebuild] rate
	RateFill    = "fill"  // a fill into the same sink that is under way
	RateAssumed = "assumed"
)

// assumedRate is how many rows a second a fill is taken to write where nothing was measured: less than each sink manages
// on the source's own machine.
const assumedRate = 20_000

// rate is how many rows a second a fill into a sink is taken to write, and where that is from.
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

// fills is how many rows a second a fill into a sink scans now; 0: there is none, or it is not known.
func (p *planner) fills(sink string) (rate float64) {
	for _, v := range p.running {
		if v.Sink == sink && v.ETA != nil && *v.ETA > 0 && v.Progress > 0 {
			rate = max(rate, float64(v.FilledRows)*(1/v.Progress-1) / *v.ETA)
		}
	}
	return rate
}
