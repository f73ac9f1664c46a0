package canal

import "strings"

// keepsColumns reports whether an ALTER TABLE leaves the order and the types of the columns as they were. The table's
// name stands at i, and each part behind it is told by its first words: options that stand together without commas are
// all of the table. What is not known may do anything.
func (p *statementParser) keepsColumns(i int) bool {
	if len(p.words) >= maxWords { // not all of them are here
		return false
	}
	_, _, i = p.tableAt(p.pastIfExists(i))
	depth, begins := 0, true
	for ; i < len(p.words); i++ {
		if begins && !p.keepsAt(i) {
			return false
		}
		switch w := p.words[i]; {
		case w.is("("):
			depth++
		case w.is(")"):
			depth--
		}
		begins = depth == 0 && p.words[i].is(",")
	}
	return true
}

// keepsAt is keepsColumns for the part that begins at i.
func (p *statementParser) keepsAt(i int) bool {
	first, second := p.at(i), p.at(i+1)
	if first.quoted {
		return false
	}
	switch strings.ToUpper(first.text) {
	case "ADD", "DROP":
		return p.isKeyAt(i + 1)
	case "RENAME":
		return second.is("INDEX") || second.is("KEY")
	case "ALTER": // a column's default, or whether an index or a check counts
		return true
	case "ENGINE", "AUTO_INCREMENT", "COMMENT", "ROW_FORMAT", "KEY_BLOCK_SIZE", "ALGORITHM", "LOCK", "FORCE",
		"STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES", "COMPRESSION", "ENCRYPTION", "ENCRYPTED",
		"ENCRYPTION_KEY_ID", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "TABLESPACE", "CHECKSUM", "MAX_ROWS",
		"MIN_ROWS", "AVG_ROW_LENGTH", "ENABLE", "DISABLE", ";":
		return true
	case "DEFAULT", "CHARACTER", "CHARSET", "COLLATE": // of columns to come; those that are there need CONVERT
		return true
	case "PARTITION", "REMOVE", "COALESCE", "REORGANIZE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "REPAIR":
		return true
	}
	return false
}

// isKeyAt reports whether what is added or dropped is an index, a constraint or a partition. These words can't be
// columns' names without quotes, but for VECTOR.
func (p *statementParser) isKeyAt(i int) bool {
	w := p.at(i)
	if w.is("VECTOR") {
		return p.at(i+1).is("INDEX") || p.at(i+1).is("KEY")
	}
	return w.isPart() && !w.is("SYSTEM") && !w.is("PERIOD") && !w.is("DEFAULT") && !w.is("(")
}
