package dist

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// archive writes the named files of the directory dir to a .tar.gz file at path. In the archive, the files are in the
// folder `under`. They keep their times, but not their owners.
func archive(path, dir, under string, names []string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	zipped, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	packed := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(slices.Values(names)) {
		err = errors.Join(err, add(packed, filepath.Join(dir, name), under+"/"+name))
	}
	return errors.Join(err, packed.Close(), zipped.Close(), file.Close())
}

func add(packed *tar.Writer, path, name string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	err = packed.WriteHeader(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(),
		ModTime: info.ModTime().UTC(), Format: tar.FormatUSTAR})
	if err == nil {
		_, err = packed.Write(content)
	}
	return err
}
