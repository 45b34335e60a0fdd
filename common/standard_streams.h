// Descriptors 0 to 2. A program that is started without one of them (`lb <&-`, some service managers) would
// give its number to the first socket or file that it opens: what is printed would go there, and a child
// would have it for its standard input.
#pragma once

namespace dlb {

// Opens /dev/null (read and write) at each of 0, 1 and 2 that is not open. First thing in main(), before
// anything opens a descriptor; later it would only hide what has been taken already. Async-signal-safe.
void open_missing_standard_streams();

}  // namespace dlb
