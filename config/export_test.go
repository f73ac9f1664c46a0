package config

// Read loads a text as the file of a directory. known are the keys that the loader knows, by the shape of their
// section.
func Read(file, dir, text string, env func(string) (string, bool), types []SinkType,
	readFile func(string) ([]byte, error)) (
	c *Config, known map[string][]string, err error) {
	l := &loader{file: file, dir: dir, env: env, types: types, readFile: readFile}
	c, err = l.load([]byte(text))
	return c, l.keys, err
}
