// Row files: how rows get into CSV files. StreamFile is one file of one run, which grows while the load runs:
// a thread of its own writes, so that a slow disk never holds the loop up; its memory is bounded, and what
// found no room or could not be written is an error at the end. append_rows() adds to a file that many runs
// share: under a lock, and never below a header that has other columns.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/result.h"

namespace dlb {
class LineWriter;
}

namespace dlb::loadgen {

class StreamFile {
 public:
  // Makes the file, which must not be there (error code EEXIST), and writes the header.
  static Result<std::unique_ptr<StreamFile>> create(const std::string& path, std::string_view header);
  StreamFile(const StreamFile&) = delete;
  StreamFile& operator=(const StreamFile&) = delete;
  ~StreamFile();

  // `row` ends with its newline. Never waits.
  void append(std::string_view row);
  // Waits, for a bounded time, until all is written. The error says why the file is not whole; what is
  // there are whole rows.
  Result<void> finish();

  const std::string& path() const { return path_; }

 private:
  class Sink;
  StreamFile(std::string path, std::shared_ptr<Sink> sink);

  std::string path_;
  std::shared_ptr<Sink> sink_;
  std::unique_ptr<LineWriter> writer_;
};

// Appends `rows` to FOLDER/NAME.csv, with `header` when it is new or empty. Where that file has another
// header the rows go to NAME-2.csv, NAME-3.csv and so on. Gives the path that was taken. All rows or none.
Result<std::string> append_rows(const std::string& folder, const std::string& name, std::string_view header,
                                std::string_view rows);

// Makes a file with these bytes. Refuses to write over another one; on an error there is none.
Result<void> write_new_file(const std::string& path, std::string_view bytes);

}  // namespace dlb::loadgen
