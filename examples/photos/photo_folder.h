// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ListPhotos: the photographs of a folder that has one folder for each class.
//
//   photos/cat/tom.jpg        TENON_ASSIGN_OR_RETURN(
//   photos/cat/kitty.JPEG         PhotoFolder folder, ListPhotos("photos"));
//   photos/dog/rex.jpg        folder.classes[folder.photos[0].label] == "cat"
//
// It lists names and opens no photograph.

#ifndef TENON_EXAMPLES_PHOTOS_PHOTO_FOLDER_H_
#define TENON_EXAMPLES_PHOTOS_PHOTO_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tenon {

struct Photo {
  std::string path;  // Begins with the path that ListPhotos() was given.
  int label = 0;     // Index of its class in PhotoFolder::classes.
};

struct PhotoFolder {
  std::vector<std::string> classes;  // Folder names, ordered by their bytes.
  std::vector<Photo> photos;         // Ordered by class, then by name.
};

// Lists the contents of `path`, one folder deep. A photograph is a regular
// file, or a symbolic link to one, whose name ends in .jpg or .jpeg in any
// case. Names that begin with a dot are ignored; a class may have no
// photographs. The order depends only on the names. Blocks while it reads the
// folders.
//
// Errors: kNotFound if there is no such folder, or no photograph in it;
// kInvalidArgument if `path` is not a folder; kPermissionDenied if it or a
// class folder may not be read; other errors of reading, by PosixError(). There
// is no partial result.
absl::StatusOr<PhotoFolder> ListPhotos(const std::string& path);

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_PHOTO_FOLDER_H_
