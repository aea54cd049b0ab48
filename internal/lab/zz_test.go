package lab
import ("testing";"fmt";"os";"strings")
func TestZZ(t *testing.T){
 all,_:=All()
 for _,dir:=range strings.Fields(os.Getenv("DIRS")) {
  tabs,err:=Tables(dir,all); if err!=nil{t.Fatal(err)}
  for _,tb:=range tabs { for _,r:=range tb.Rows { for _,c:=range r.Cells {
   if c.State!=Explained && c.State!=Differs {continue}
   if os.Getenv("COL")!="" && !strings.Contains(os.Getenv("COL"),c.Column) {continue}
   want,_:=tb.want(metric(r.Metric),c.Column)
   got,_:=tb.value(metric(r.Metric),c.Column)
   mark:="   "; if c.State==Differs {mark="(!)"}
   why:=c.Why; if len(why)>40 {why=why[:40]}
   cut:=func(v []float64) string { s:=fmt.Sprint(v); if len(s)>70 {s=s[:70]+"..."}; return s}
   fmt.Println(mark, tb.Scenario.Name, c.Column, r.Metric, "got", cut(got), "want", cut(want), "|", why)
  }}}
 }
}
