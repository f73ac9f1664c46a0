package config

// Read loads text as if it were the named file in dir. known has the keys that the loader knows, by Section.shape.
func Read(file, dir, text string, env func(string) (string, bool), types []SinkType,
	readFile func(string) ([]byte, error)) (
	c *Config, known map[string][]string, err error) {
	l := &loader{file: file, dir: dir, env: env, types: types, readFile: readFile}
	c, err = l.load([]byte(text))
	return c, l.keys, err
}
